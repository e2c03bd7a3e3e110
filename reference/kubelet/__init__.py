"""The kubelet around its CPU manager: settings, start, admission, runtime, exit."""
