"""What of each platform the support matrix shows (`quality.docs.support_matrix.Supported`)."""
