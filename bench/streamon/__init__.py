"""What adaptive plans are worth: `penstock bench network`."""
