"""What Python code does, as far as a database can tell: files read into small trees of our own."""
