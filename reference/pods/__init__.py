"""What the API says of pods: quantities, QoS classes, pod-level resources."""
