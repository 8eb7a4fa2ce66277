"""The post engine: every message is one file, signed and encrypted, that people carry as they like."""
