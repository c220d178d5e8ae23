"""State stores of more than one server: a Cluster's slots, and Sentinels that know the master."""
