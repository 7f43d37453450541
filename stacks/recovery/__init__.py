"""What an interrupted `pulumi up` or `pulumi destroy` leaves behind, put in order again."""
