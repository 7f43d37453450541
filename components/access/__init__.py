"""Who reaches what: networks, kubeconfigs, permissions of controllers, identities of pods."""
