"""Parts of messages: near names, arguments under names of other frameworks, tables."""
