"""What SQL means: statements read into plain facts, whatever placeholders and holes stand in them."""
