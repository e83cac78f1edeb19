// Sorts in several goroutines, grows a heap, starts a child, and writes its memory's mappings to the file that
// FAITHFUL_MAPS names. go build -ldflags='-s -w' goroutines.go
package main

import (
	"fmt"
	"os"
	"os/exec"
	"sort"
	"sync"
)

func main() {
	var group sync.WaitGroup
	sums := make([]uint64, 4)
	for part := range sums {
		group.Add(1)
		go func(part int) {
			defer group.Done()
			state := uint64(part) + 88172645463325252
			values := make([]uint64, 50000)
			for at := range values {
				state ^= state << 13
				state ^= state >> 7
				state ^= state << 17
				values[at] = state
			}
			sort.Slice(values, func(a, b int) bool { return values[a] < values[b] })
			sums[part] = values[len(values)/2]
		}(part)
	}
	group.Wait()
	fmt.Println(sums)
	told, err := exec.Command("echo", "child").Output()
	fmt.Print(string(told))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if name := os.Getenv("FAITHFUL_MAPS"); name != "" {
		maps, _ := os.ReadFile("/proc/self/smaps")
		os.WriteFile(name, maps, 0666)
	}
	os.Exit(3)
}
