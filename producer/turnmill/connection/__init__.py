"""How Redis and the broker are reached: URLs, credentials, pools, Sentinel, Cluster."""
