"""What a format is: layouts, every notation of them, and what strides say."""
