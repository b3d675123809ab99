[
  import_deps: [:nx, :stream_data],
  inputs: [
    "{mix,.formatter}.exs",
    "{mix,config,lib,test,bench,examples}/**/*.{ex,exs}"
  ]
]
