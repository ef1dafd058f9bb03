"""Exchange of GPU arrays with other libraries."""
