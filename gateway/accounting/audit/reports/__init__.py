"""What the audit says when it is read: calls and actions, searched, counted, and on one page."""
