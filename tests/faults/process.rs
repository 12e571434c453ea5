//! Section F: the process, the operating system, Kubernetes.
