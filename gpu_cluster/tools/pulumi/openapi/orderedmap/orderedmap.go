// Package orderedmap has the empty map that the engine's code about OpenAPI is written against.
package orderedmap

import "iter"

// A Map is always empty.
type Map[K comparable, V any] struct{}

// New returns an empty map.
func New[K comparable, V any]() *Map[K, V] { return &Map[K, V]{} }

// Len is 0.
func Len[K comparable, V any](*Map[K, V]) int { return 0 }

func (*Map[K, V]) Get(K) (value V, found bool)  { return }
func (*Map[K, V]) GetOrZero(K) (value V)        { return }
func (*Map[K, V]) Set(K, V) (value V, had bool) { return }
func (*Map[K, V]) Delete(K) (value V, had bool) { return }
func (*Map[K, V]) FromOldest() iter.Seq2[K, V]  { return func(func(K, V) bool) {} }
func (*Map[K, V]) KeysFromOldest() iter.Seq[K]  { return func(func(K) bool) {} }
