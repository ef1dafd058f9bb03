"""Parts of messages, such as similar names, arguments of other frameworks, and tables."""
