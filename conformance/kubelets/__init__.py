"""What is known of kubelets, whoever starts them: releases, binaries, configuration, manifests."""

from conformance.kubelets.builder import Built, build, cached

__all__ = ["Built", "build", "cached"]
