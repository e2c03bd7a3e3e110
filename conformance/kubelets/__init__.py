"""What is known of kubelets: releases, binaries, configuration, manifests."""

from conformance.kubelets.builder import Built, build, cached

__all__ = ["Built", "build", "cached"]
