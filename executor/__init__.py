"""A self-hosted service that runs a language model's tool calls, each in a throwaway sandbox."""
