"""`gpu-cluster new`: the file of a new environment, and the questions for each platform."""
