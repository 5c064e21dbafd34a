"""What `spillway demo` runs beside the product: nothing here is used in production."""
