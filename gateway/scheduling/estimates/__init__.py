"""What is learnt of times and demand, which decisions are made by."""
