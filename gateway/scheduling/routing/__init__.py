"""Which endpoints may serve a call, and in what order: hard filters, then scores, one snapshot.

Everything in this package is pure: live traffic, `explain` and simulations run the same functions.
"""
