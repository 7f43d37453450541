"""Google Cloud's APIs over HTTP, validated against Google's published API documents."""
