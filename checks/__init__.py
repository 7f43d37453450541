"""Commands that ask a live cloud or cluster about a stack; none of them changes anything."""
