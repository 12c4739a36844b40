# Writes OUT, a C++ source that holds the files PAGE and CHART (which may be empty) as bytes.
function(bytes_of result path)
  set(bytes "")
  if(path)
    file(READ "${path}" hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  endif()
  set(${result} "${bytes}" PARENT_SCOPE)
endfunction()
bytes_of(page "${PAGE}")
bytes_of(chart "${CHART}")
file(WRITE "${OUT}" "#include \"fidelity/report_parts.h\"
namespace planesmith {
static const unsigned char page[] = {${page}0};
static const unsigned char chart[] = {${chart}0};
const std::string_view kReportPage(reinterpret_cast<const char*>(page), sizeof page - 1);
const std::string_view kChartLibrary(reinterpret_cast<const char*>(chart), sizeof chart - 1);
}  // namespace planesmith
")
