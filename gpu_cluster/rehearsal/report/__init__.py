"""What a rehearsal shows: its progress, its report, its timeline."""
