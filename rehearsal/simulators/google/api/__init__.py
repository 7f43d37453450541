"""Google Cloud's APIs over HTTP, held to the documents that Google publishes of them."""
