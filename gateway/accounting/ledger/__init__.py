"""What every attempt cost, kept over restarts, and the budgets that are held against it.

The loop hands entries over and goes on (`ledger`); one thread writes them, many in one transaction
(`store`, over `sqlite` or `postgres`). In the same transaction the money that was spent moves from
this process's leases to what is spent for good. So at any moment, whatever dies: what is spent and
what is leased to all processes together is within every budget, and a decision needs nothing but
its own process's memory (`leases`).
"""
