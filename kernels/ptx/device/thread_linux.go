package device

import "syscall"

// threadID tells the calling OS thread from others.
func threadID() int { return syscall.Gettid() }
