"""Repairs what an interrupted `pulumi up` or `pulumi destroy` leaves behind."""
