"""What a stack costs, from list prices."""
