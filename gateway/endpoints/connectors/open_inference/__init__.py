"""Calls by the Open Inference Protocol, as every kind of server that speaks it takes them."""
