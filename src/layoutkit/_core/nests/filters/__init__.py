"""Filters of images and volumes, and values between their elements."""
