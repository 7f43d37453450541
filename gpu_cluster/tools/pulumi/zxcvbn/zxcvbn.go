// Package zxcvbn stands for the estimate of a password's strength that only `pulumi config set` and
// `pulumi env set` need, to refuse a secret in plain text. Its word lists took half of the start of
// every command. Here every value with a name such as `token` is refused without --plaintext.
package zxcvbn

// Strength is the part of an estimate that the engine reads.
type Strength struct{ Entropy float64 }

// PasswordStrength considers every password strong.
func PasswordStrength(string, []string) Strength { return Strength{Entropy: 1000} }
