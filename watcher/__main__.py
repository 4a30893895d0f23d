from watcher.main import main

main()
