"""What is done to jobs: claims, leases, what keeps others from them, and what is told of their queues."""
