"""Programs in which anything may fail: each is run again and again, with one step or another failing for real."""
