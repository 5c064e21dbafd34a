"""What values are made of: names, addresses, numbers and their spellings."""
