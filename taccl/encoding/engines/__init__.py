"""The engines, a package each. One knows another only through the registry."""
