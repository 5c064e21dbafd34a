"""The texts of a call, and the forms in which what is sought may be hidden in them."""
