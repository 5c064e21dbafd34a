"""What failures cost, measured on real servers."""
