"""The custom resource definitions of JobSet, Kueue and Karpenter."""
