"""What a format is: layouts, every notation of them, what strides say, and the formats of other libraries."""
