"""The schema and the workers to migrate to. They are files to own: nothing else here imports them."""
