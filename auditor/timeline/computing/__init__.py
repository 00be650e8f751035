"""What operations on known values come to: texts, files, collections, the bindings of a statement."""
