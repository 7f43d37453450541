"""`gpu-cluster new`: the file of a new environment, and what each platform asks for it."""
