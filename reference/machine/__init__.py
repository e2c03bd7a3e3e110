"""The machine, as cAdvisor and the kubelet find it."""
