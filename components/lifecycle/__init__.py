"""What an update, a replacement or a destroy would do to the cluster, its nodes and its data."""
