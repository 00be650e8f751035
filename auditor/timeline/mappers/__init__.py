"""What is asked through an ORM, as the SQL that it sends."""
